#include "host.h"
extern "C" { extern const struct host_case host_cxx_cases[]; const struct host_case host_cxx_cases[]={{0,0}}; }
