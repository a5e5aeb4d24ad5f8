"""The scheduling framework: extension points, statuses, the registry of plugins and the runtime that calls them."""
