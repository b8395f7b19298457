"""The MCP server of a travel agency, over stdio: python3 server.py."""

from mcp.server import MCPServer

FLIGHTS = {"Paris": {"LH400": 120, "AF7": 95}, "Oslo": {"SK3": 90}}

server = MCPServer("travel")


@server.tool()
def find_flights(city: str) -> dict[str, int]:
    """The flights to a city with their prices, in EUR."""
    return FLIGHTS.get(city, {})


@server.tool()
def book(flight: str) -> str:
    """Book a flight."""
    return f"booked {flight}"


if __name__ == "__main__":
    server.run()
