"""Who calls the API: tokens, and the callers that they identify."""
