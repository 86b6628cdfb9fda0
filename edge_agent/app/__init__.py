"""The agent: the only place that knows every room."""
