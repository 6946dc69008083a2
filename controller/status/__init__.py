"""How streams, groups and the controller do: for dashboard, metrics and commands."""
