// golden_keys_fill FILE: rewrites the keys of all cases of a golden_keys.json, for when a case is
// added. A case that changes is a broken promise: what was stored under its keys is lost.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/base/golden_keys.h"

using nlohmann::ordered_json;
using namespace kvstrata;
using namespace kvstrata::test;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: golden_keys_fill FILE\n", stderr);
    return 2;
  }
  const std::vector<GoldenKeys> golden = read_golden_keys(argv[1]);
  ordered_json file;
  std::ifstream(argv[1]) >> file;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    ordered_json& one = file["cases"][i];
    const NamespaceSpec& spec = golden[i].spec;
    validate(spec.model).value();
    one["namespace_bytes"] = to_hex(namespace_bytes(spec));
    one["namespace_hash"] = namespace_hash(spec).hex();
    one["prefix_hashes"] = computed_prefix_hashes(golden[i]);
    for (std::size_t k = 0; k < golden[i].opaque_keys.size(); ++k) {
      const std::string& key = golden[i].opaque_keys[k].key;
      one["opaque_keys"][k]["hash"] = opaque_hash(namespace_hash(spec), as_bytes(key)).hex();
    }
  }
  std::ofstream(argv[1]) << file.dump(1) << '\n';
  return 0;
}
