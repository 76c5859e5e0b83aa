"""What people ask: means, groups, quantiles, tables, each made of linear questions whose intervals hold together."""
