"""What is written: bindings, conditions and events, each within its budget."""
