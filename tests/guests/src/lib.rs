//! Guests that misbehave, and odd ones that do not: one program per behaviour, in `guests/`. `hostile_` guests end in a
//! named failure or are contained; `odd_` guests show what the host lets through. `tests/hostile` runs them all.
