"""Instructions of x86 CPUs: AMX, dot products, streaming stores."""
