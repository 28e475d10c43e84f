# shellcheck shell=bash disable=SC2034
# An attention pattern at a number of keys, both read from the configuration's name: window-8.sh is the pattern "window"
# with 8 keys a query. As in the follow-up of the paper, patterns are for self-attention.
# shellcheck disable=SC1090,SC1091
source "$ROOT/configs/$DATASET/common.inc.sh"

PATTERN="${EXPERIMENT%-*}" SPAN="${EXPERIMENT##*-}"
SYSTEM="${PATTERN/bigbird/Big Bird} $SPAN$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-pattern "$PATTERN" --attention-span "$SPAN")
