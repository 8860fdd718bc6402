#!/bin/sh
# A script as the command: its interpreter and all that it starts are followed.
"$1" stderr
"$1" status
echo "script saw $?"
exit 9
