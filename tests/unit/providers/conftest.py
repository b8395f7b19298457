from shared_fixtures import resources, server

__all__ = ["resources", "server"]
