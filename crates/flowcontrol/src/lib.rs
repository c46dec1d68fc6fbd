//! Priority and fairness, without HTTP: who is served now, who waits, and who is refused.
