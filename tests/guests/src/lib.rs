//! Hostile and odd guests live in `examples`: one program per behaviour.
