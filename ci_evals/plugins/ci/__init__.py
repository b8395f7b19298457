"""What CI systems share: the comment, the choice of a baseline, archives and requests."""
