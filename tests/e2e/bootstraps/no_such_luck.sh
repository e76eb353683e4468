#!/bin/sh
# A bootstrap that cannot start.
echo "looking for luck"
echo "no such luck at port $$" >&2
exit 3
