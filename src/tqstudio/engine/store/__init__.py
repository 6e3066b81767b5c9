"""Contains every SQL statement of the product, each in a named function on a connection.

Functions that write are called inside one `BEGIN IMMEDIATE` transaction (`database.Database.write`). A
guarded UPDATE that changes no row is reported by the return value, not by an exception.
"""
