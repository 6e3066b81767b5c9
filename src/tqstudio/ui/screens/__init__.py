"""The screens: one per view, the job, texts, and dialogs."""
