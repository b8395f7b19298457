"""An agent that is an HTTP service on loopback: python3 service.py PORT."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PRICES = {"Paris": 120, "Oslo": 90}


class Seller(BaseHTTPRequestHandler):
    """Answers POST /ask, and GET /health."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["wish"]
        city = wish.split()[-1]
        said = f"That is {PRICES[city]}." if city in PRICES else "I do not know that city."
        body = json.dumps(
            {"said": said, "calls": [{"name": "get_price", "arguments": {"city": city}}]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the terminal for the one who asks."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Seller).serve_forever()
