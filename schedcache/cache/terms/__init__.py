"""Counts of placed pods by node, for terms that pods ask of others: kept as pods come and go, for spreading and affinity."""

from schedcache.cache.terms.index import TermIndex
from schedcache.cache.terms.row_counts import Counts
from schedcache.cache.terms.term import Owned, OwnedTerm, Ownership, PodTerm, owned_terms, term_namespaces

__all__ = ["Counts", "Owned", "OwnedTerm", "Ownership", "PodTerm", "TermIndex", "owned_terms", "term_namespaces"]
