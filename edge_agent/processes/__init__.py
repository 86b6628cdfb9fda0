"""Supervised children, socket-pair channels, the tensor arena, backoff."""
