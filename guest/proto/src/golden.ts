/** What of the contract travels: numbers and kinds of fields, values of enums, calls. Names of fields do not, but say what is meant. */
import { type DescEnum, type DescField, type DescFile, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { file_space_guest_v1_files } from '../gen/space/guest/v1/files_pb.ts';
import { file_space_guest_v1_machine } from '../gen/space/guest/v1/machine_pb.ts';
import { file_space_guest_v1_processes } from '../gen/space/guest/v1/processes_pb.ts';
import { file_space_guest_v1_tunnels } from '../gen/space/guest/v1/tunnels_pb.ts';

export const FILES: readonly DescFile[] = [
  file_space_guest_v1_files,
  file_space_guest_v1_machine,
  file_space_guest_v1_processes,
  file_space_guest_v1_tunnels,
];

/** A line for each thing that an agent of another version may rely on. */
export function linesOf(files: readonly DescFile[]): string[] {
  return files.flatMap(({ messages, enums, services }) => [
    ...messages.flatMap(linesOfMessage),
    ...enums.flatMap(linesOfEnum),
    ...services.flatMap(({ typeName, methods }) =>
      methods.map(
        ({ name, methodKind, input, output }) =>
          `${typeName}.${name}: ${methodKind} ${input.typeName} → ${output.typeName}`,
      ),
    ),
  ]);
}

function linesOfMessage(message: DescMessage): string[] {
  return [
    ...message.fields.map((field) => `${message.typeName} ${field.number}: ${field.name} ${kindOf(field)}`),
    ...message.nestedMessages.flatMap(linesOfMessage),
    ...message.nestedEnums.flatMap(linesOfEnum),
  ];
}

function linesOfEnum({ typeName, values }: DescEnum): string[] {
  return values.map(({ name, number }) => `${typeName} ${number}: ${name}`);
}

function kindOf(field: DescField): string {
  const oneof = field.oneof === undefined ? '' : ` of ${field.oneof.name}`;
  switch (field.fieldKind) {
    case 'scalar':
      return ScalarType[field.scalar].toLowerCase() + oneof;
    case 'enum':
      return field.enum.typeName + oneof;
    case 'message':
      return field.message.typeName + oneof;
    case 'list':
      return `list of ${field.listKind === 'scalar' ? ScalarType[field.scalar].toLowerCase() : field.listKind === 'enum' ? field.enum.typeName : field.message.typeName}`;
    case 'map':
      return `map of ${ScalarType[field.mapKey].toLowerCase()} to ${field.mapKind === 'scalar' ? ScalarType[field.scalar].toLowerCase() : field.mapKind}`;
  }
}
