"""An MCP server over stdio that knows the stock: python3 stock_server.py."""

import json
import os
from pathlib import Path

from mcp.server import MCPServer

STOCK = json.loads(Path(os.environ["STOCK"]).read_text(encoding="utf-8"))

server = MCPServer("stock")


@server.tool()
def count_items(item: str) -> int:
    """Count what is left of an item."""
    return int(STOCK.get(item, 0))


if __name__ == "__main__":
    server.run()
