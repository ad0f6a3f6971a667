// kvstrata: the operator's tool.
#include "tools/kvstrata/arguments.h"

int main(int argc, char** argv) {
  return kvstrata::cli::run(argc, argv);
}
