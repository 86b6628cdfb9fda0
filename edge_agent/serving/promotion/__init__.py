"""Newer versions beside those that serve: compared on real requests, then promoted or refused; and the way back."""
