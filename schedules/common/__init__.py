"""What schedules of both targets share: queries, fusion, products, stencils."""
