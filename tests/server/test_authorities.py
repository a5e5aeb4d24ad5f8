"""Who vouches for clients: bundles from files and from the cluster, as people write them."""

import json

import pytest

from schedcache.app.securing import ClientAuthorities
from schedcache.server.access.authentication import authorities_in
from schedcache.server.secure_settings import AccessSettings, TLSSettings
from schedcache.server.tls import TLSContexts
from tests.server.pki import Authority

COMMENT = "# Autorité Racine, 証明書\n"


class Transport:
    """To an API server that publishes authorities of clients."""

    def __init__(self, client_ca):
        self.client_ca = client_ca

    async def get(self, path, timeout):
        return json.dumps({"data": {"client-ca-file": self.client_ca}}).encode()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_comments_in_a_bundle_may_be_in_any_language(tmp_path, encoding):
    authority = Authority(tmp_path, "clients")
    authority.file.write_bytes(COMMENT.encode(encoding, "ignore") + authority.pem)
    settings = AccessSettings(client_ca_file=authority.file, requestheader_client_ca_file=authority.file)
    authorities = ClientAuthorities(settings, Transport(""))
    assert TLSContexts(TLSSettings(), authorities.pem).current.get_ca_certs()
    for pem in (authorities.current.client_ca, authorities.current.requestheader_client_ca):
        assert len(authorities_in(pem)) == 1


async def test_so_may_those_in_what_the_cluster_publishes(tmp_path):
    pem = Authority(tmp_path, "clients").pem.decode()
    authorities = ClientAuthorities(AccessSettings(tolerate_lookup_failure=False), Transport(COMMENT + pem))
    await authorities.begin()
    assert TLSContexts(TLSSettings(), authorities.pem).current.get_ca_certs()
    assert len(authorities_in(authorities.current.client_ca)) == 1
