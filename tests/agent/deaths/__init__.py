"""Many deaths of the program, cheaply: a parent that has imported everything forks, the child works, and is killed."""
