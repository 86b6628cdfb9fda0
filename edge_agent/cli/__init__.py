"""The edge-agent command, one verb a file."""
