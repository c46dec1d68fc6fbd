//! Expressions of policies and match conditions: where they are compiled, what they are evaluated with.
