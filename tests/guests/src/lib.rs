//! Misbehaving guests, and unusual ones that are valid: one program per behaviour, in `guests/`. `hostile_` guests end
//! in a named failure or are contained; `odd_` guests show what the host allows. `tests/hostile` runs them all.
