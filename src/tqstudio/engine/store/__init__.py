"""Every SQL statement of the product, each a named function on a connection.

Functions that write are called inside one `BEGIN IMMEDIATE` transaction (`database.Database.write`); a
guarded UPDATE that touches no row is an answer, not an exception.
"""
