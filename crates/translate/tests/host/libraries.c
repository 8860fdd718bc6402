#include "host.h"
const struct host_case host_lib_cases[]={{0}};
