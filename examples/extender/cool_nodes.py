"""A scheduler extender: keeps pods off nodes that run hot, and prefers the coolest of the others.

Whatever measures the temperature writes it to the node, in degrees Celsius, as the annotation `example.com/temperature`. A pod may
say with the same annotation how hot its node may be, 70 where it says nothing. Nodes without a measurement are taken to be cool.
Nothing but Python's standard library is needed, so that it can run anywhere.
"""

# ruff: noqa: INP001  a script is no package
import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEMPERATURE = "example.com/temperature"
LIMIT = 70.0
COOL = 20.0
MOST_POINTS = 10


def filter_nodes(arguments: dict[str, Any]) -> dict[str, Any]:
    """ExtenderArgs to ExtenderFilterResult: no pod that is evicted cools a node at once, so that none need be."""
    limit = temperature(arguments["Pod"], LIMIT)
    hot, cool = {}, []
    for node in arguments["Nodes"]["items"] or ():
        if temperature(node, COOL) > limit:
            hot[node["metadata"]["name"]] = f"node(s) were hotter than {limit:g} degrees"
        else:
            cool.append({"metadata": {"name": node["metadata"]["name"]}})
    return {"Nodes": {"items": cool}, "FailedAndUnresolvableNodes": hot}


def prioritize_nodes(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """ExtenderArgs to HostPriorityList: ten points for a cool node, none for one at the limit."""
    limit = temperature(arguments["Pod"], LIMIT)
    span = max(limit - COOL, 1.0)
    points = []
    for node in arguments["Nodes"]["items"] or ():
        share = (limit - temperature(node, COOL)) / span
        points.append({"Host": node["metadata"]["name"], "Score": round(MOST_POINTS * min(max(share, 0.0), 1.0))})
    return points


def temperature(obj: dict[str, Any], otherwise: float) -> float:
    """What the annotation says; ValueError for anything but a number."""
    return float((obj["metadata"].get("annotations") or {}).get(TEMPERATURE, otherwise))


VERBS = {"/filter": filter_nodes, "/prioritize": prioritize_nodes}


class Handler(BaseHTTPRequestHandler):
    """Answers POST, on connections that are kept."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """The answer of the verb in the path; what is wrong with a request is said in an error."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = VERBS.get(self.path)
        try:
            self._send(404, {}) if answer is None else self._send(200, answer(json.loads(body)))
        except (ValueError, KeyError, TypeError) as error:
            self._send(200, {"Error": f"{type(error).__name__}: {error}"})

    def _send(self, status: int, found: Any) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name in the base class
        """Nothing for each request."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A scheduler extender that keeps pods off hot nodes.")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8888)
    options = parser.parse_args()
    with ThreadingHTTPServer((options.address, options.port), Handler) as server:
        sys.stderr.write(f"serving on http://{options.address}:{server.server_port}\n")
        server.serve_forever()


if __name__ == "__main__":
    main()
