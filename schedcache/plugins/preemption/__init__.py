"""The parts of DefaultPreemption: budgets, the dry run of all candidates, the choice among them."""
