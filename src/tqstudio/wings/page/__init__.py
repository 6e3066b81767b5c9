"""Shows a studio in the browser: library, what runs, player. A client of the supervisor."""
