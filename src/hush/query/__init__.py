"""Questions: schema, SQL front end, builder, typed question tree, ranges, contribution bounds, planning."""
