"""When a batch is sent and what is in it."""
