"""What a nest costs: operations, trip counts, memory traffic."""
