//! Fakes behind the ports (no floor: tests alone use it).
