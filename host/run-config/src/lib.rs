//! x (floor 1)
