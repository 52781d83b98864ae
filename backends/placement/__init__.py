"""Where a request goes: filters, what each replica would cost, and a picker.

The same functions decide in the gateway and in `flashlane simulate`. See docs/placement.md.
"""
