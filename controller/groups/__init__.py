"""Reader groups: who reads which segment, and where a group stands."""
