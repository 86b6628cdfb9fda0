"""Who may do what: tokens and roles."""
