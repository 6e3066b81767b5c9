"""Modal dialogs: questions, forms, choices."""
