"""τ²-bench: customer service with tools, a policy and a simulated customer."""
