"""What may keep a job from starting: full or silent volumes, a busy machine."""
