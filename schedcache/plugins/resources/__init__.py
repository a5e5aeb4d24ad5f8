"""What the plugins that score resources share."""
