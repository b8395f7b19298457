from shared_fixtures import answer_of

__all__ = ["answer_of"]
