"""HTTP: KServe v2, the agent's API, metrics, the technician's page."""
