"""Jobs as clients read them: pages of the list, with orders, filters and search by name, and one job."""
