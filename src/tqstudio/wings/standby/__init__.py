"""Stands by while another supervisor leads the queue on PostgreSQL: lends it workers, and takes over."""
